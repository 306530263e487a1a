"""What operators watch: declared once, counted cheaply, shown to Prometheus."""
