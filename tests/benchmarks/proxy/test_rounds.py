"""What the bench computes from its samples."""

from benchmarks.proxy.real_kafka import RealSample
from benchmarks.proxy.real_kafka import figures as real_figures
from benchmarks.proxy.rounds import Holding, Sample, figures
from benchmarks.proxy.turns import Share, ratios


def sample(number: int, target: str, requests: int, *, p50_us: float = 10, cpu_s: float = 0.0) -> Sample:
    return Sample(
        round=number,
        workload="one",
        target=target,
        requests=requests,
        bytes=requests * 100,
        seconds=2.0,
        p50_us=p50_us,
        p99_us=p50_us * 3,
        requests_in_all=requests * 2,
        bytes_in_all=requests * 200,
        cpu_s=cpu_s,
        rss_bytes=1 << 20,
    )


def test_figures_compare_with_direct_in_the_same_round_and_take_the_median() -> None:
    # A machine that is three times as fast in the third round must not change the ratio.
    samples = [
        sample(0, "direct", 1000, p50_us=10),
        sample(0, "p", 500, p50_us=30, cpu_s=0.01),
        sample(1, "direct", 1000, p50_us=10),
        sample(1, "p", 400, p50_us=32, cpu_s=0.02),
        sample(2, "direct", 3000, p50_us=5),
        sample(2, "p", 1500, p50_us=19, cpu_s=0.03),
    ]
    (found,) = figures(samples)
    assert (found.workload, found.target) == ("one", "p")
    assert found.ratio == 0.5
    assert found.added_p50_us == 20
    assert found.cpu_us_per_request == 10.0
    assert found.cpu_s_per_gb == 100.0


def test_a_round_without_its_direct_run_is_left_out() -> None:
    assert figures([sample(0, "p", 500)]) == []


def test_memory_per_idle_connection_counts_from_the_hundredth_on() -> None:
    held = Holding("p", 0, 10 << 20, 1100, 20 << 20, True, 10 << 20)
    assert held.bytes_per_idle_connection == (10 << 20) / 1000


def test_end_to_end_latency_is_compared_the_other_way_round() -> None:
    samples = [
        RealSample(0, "end-to-end latency", "direct", 100.0, 0, 50, 0.0),
        RealSample(0, "end-to-end latency", "p", 200.0, 0, 50, 0.001),
        RealSample(0, "produce", "direct", 1000.0, 10**9, 50, 0.0),
        RealSample(0, "produce", "p", 900.0, 10**9, 50, 0.4),
    ]
    latency, produce = real_figures(samples)
    assert (latency.ratio, latency.added_us, latency.cpu_s_per_gb) == (0.5, 100.0, None)
    assert (produce.ratio, produce.added_us, produce.cpu_s_per_gb) == (0.9, None, 0.4)


def test_turns_are_compared_with_the_base_of_the_same_round() -> None:
    shares = [
        Share(0, "one", "plain", 1000, 0.010),
        Share(0, "one", "captures", 2000, 0.022),
        Share(1, "one", "plain", 1000, 0.020),
        Share(1, "one", "captures", 1000, 0.024),
    ]
    assert ratios(shares, "plain") == {("one", "plain"): [1.0, 1.0], ("one", "captures"): [1.1, 1.2]}
