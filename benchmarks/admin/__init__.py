"""What polling the control plane does to the traffic: p99 of proxied requests, with and without."""
