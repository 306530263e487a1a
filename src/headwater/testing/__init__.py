"""For tests of programs that use Headwater: a pytest plugin, and a server in a thread."""
