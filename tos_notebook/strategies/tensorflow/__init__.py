"""Between-graph replication of TF1-style graphs: TensorFlow's servers have the variables."""
