"""Programs that measure how many samples a second each way of training or predicting takes."""
