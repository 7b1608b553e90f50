"""The parameter server in the driver, with which workers exchange parameters asynchronously."""
