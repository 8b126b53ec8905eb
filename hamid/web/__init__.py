"""HTTP in: sites, TLS that reloads, errors as JSON, and the certificates that TLS needs.

`server` runs the sites, `certs` keeps their TLS current, `pki` makes certificates, `middleware`
and `responses` give every answer one shape. Roles hand in routes; nothing here knows what they
are for, nor Kubernetes.
"""
