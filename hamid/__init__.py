"""hamid: share GPUs on Kubernetes so that limits hold."""

__version__ = "0.1.0"
