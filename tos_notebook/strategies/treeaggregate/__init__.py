"""MLlib's gradient descent: workers compute gradients of samples, the driver makes the step."""
