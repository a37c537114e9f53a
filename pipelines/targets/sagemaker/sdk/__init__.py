"""The SageMaker Python SDK as a partner: its Pipeline objects for what is compiled here, its data on images."""
