"""TensorFlow and Keras 3 as the loop, the checkpoints and the evaluation ask for them; what strategies are made of."""
