"""One proxy in several processes: a control plane that decides, and workers that carry the bytes.

    control.ControlPlane ── the plan, the ports, the HTTP API, the timeline
      │  ▲                    (channel: questions, orders, news; memory: what has changed)
      ▼  │
    worker.Worker ────────── accepts on the same ports (SO_REUSEPORT), sessions, its own capture

What no rule means never leaves its worker. What a rule may mean is asked of the one plan, and answered before the
worker goes on: counters hold exactly because there is only one of each (docs/adr/0006).
"""
