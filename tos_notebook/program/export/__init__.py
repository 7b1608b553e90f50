"""What all kinds of programs share, and how a step becomes an archive; no Keras, no Spark."""
