"""A cluster in one process: the daemon's real roles over an API double and simulated nodes.

Real: admission, placement, binding, device plugin, the HTTP and unix sockets between them.
Stand-ins, each saying what it does not imitate: the API server (`kube.fake`), the kubelets
(`kubelet.fake`), the drivers (`nvml.fake`), kube-scheduler (`scheduler`), and the controllers that
make pods of deployments and jobs (`workloads`).
"""
