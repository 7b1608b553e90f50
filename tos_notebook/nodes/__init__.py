"""The nodes of a TensorFlow cluster: how they start, meet, get rows and end. No notebook."""
