package main

import (
	"math/bits"
	"time"
)

const subBuckets = 64 // per power of two: quantiles are right within 1.6 %

// histogram counts durations in nanoseconds, log-linear, at a fixed and small size.
type histogram struct {
	counts  [64 * subBuckets]int64
	total   int64
	sum     int64
	longest int64
}

func bucket(ns int64) int {
	if ns < subBuckets {
		return int(ns)
	}
	shift := bits.Len64(uint64(ns)) - 7
	return (shift+1)*subBuckets + int(ns>>shift) - subBuckets
}

// floor is the smallest duration of a bucket.
func floor(index int) int64 {
	if index < subBuckets {
		return int64(index)
	}
	shift := index/subBuckets - 1
	return int64(index%subBuckets+subBuckets) << shift
}

func (h *histogram) record(d time.Duration) {
	ns := int64(d)
	h.counts[bucket(ns)]++
	h.total++
	h.sum += ns
	if ns > h.longest {
		h.longest = ns
	}
}

func (h *histogram) add(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.sum += other.sum
	if other.longest > h.longest {
		h.longest = other.longest
	}
}

// quantile is in microseconds, 0 where nothing was recorded.
func (h *histogram) quantile(q float64) float64 {
	left := int64(q * float64(h.total))
	for i, n := range h.counts {
		if left -= n; left < 0 {
			return float64(floor(i)) / 1e3
		}
	}
	return 0
}

func (h *histogram) mean() float64 {
	if h.total == 0 {
		return 0
	}
	return float64(h.sum) / float64(h.total) / 1e3
}

func (h *histogram) max() float64 { return float64(h.longest) / 1e3 }
