"""The kubelet on this node, as values and protocols.

`port` holds what the other rooms see; `constants` mirrors upstream's; `server`, `registration`,
`pod_resources`, `pods_api` and `checkpoint` are the real thing; `fake` is a kubelet in memory that
speaks over the same unix sockets. The generated messages (`v1beta1`, `podresources_v1`,
`pods_v1alpha1`) are seen by this room alone.
"""
