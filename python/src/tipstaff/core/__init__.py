"""What is generated from the wire's definition. Programs use the package above it."""
