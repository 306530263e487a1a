"""What operators watch: declared once, counted cheaply, exposed to Prometheus."""
