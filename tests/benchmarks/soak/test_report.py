"""What a soak says of its samples."""

from collections.abc import Callable

from benchmarks.soak.cycle import Sample
from benchmarks.soak.report import trend


def samples(rss_mib: Callable[[int], float]) -> list[Sample]:
    return [Sample(20.0 * number, int(rss_mib(number) * (1 << 20)), 16, 3, 1000, 10) for number in range(90)]


def test_what_grows_all_along_is_told_by_the_hour() -> None:
    assert "(97.5 to 156.5; +180.0 MiB an hour)" in trend(samples(lambda number: 67.5 + number))


def test_a_few_odd_samples_near_the_end_are_no_growth_but_are_told() -> None:
    said = trend(samples(lambda number: 150 if number in (80, 85) else 70 + number % 3))
    assert "RSS 71.0 MiB (70.0 to 150.0; +0.0 MiB an hour), descriptors 16, threads 3" in said
    assert "90,000 requests and 900 reconnects in 30 min" in said
