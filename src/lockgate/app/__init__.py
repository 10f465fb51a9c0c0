"""A model that grows, for people who use it: learn, predict, inspect, serve, export."""
