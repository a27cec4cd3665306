"""Modules that `make proto` generates from the .proto files in this directory."""
