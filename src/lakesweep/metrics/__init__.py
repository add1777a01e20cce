"""What is told of a run when it has ended: a file for Prometheus, spans and metrics for an OTLP collector."""
