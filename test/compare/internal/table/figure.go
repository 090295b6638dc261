package table

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Unit is what a figure counts.
type Unit string

// The units.
const (
	Seconds Unit = "s"
	Bytes   Unit = "B"
	Count   Unit = ""
)

// Figure is one measured number. The zero Figure is 0 of nothing.
type Figure struct {
	Value float64 `json:"value"`
	Unit  Unit    `json:"unit,omitempty"`
	// AtLeast says that the true value is not known to be smaller: the measurement was ended there.
	AtLeast bool `json:"atLeast,omitempty"`
}

// Time is a figure of seconds.
func Time(d time.Duration) *Figure { return &Figure{Value: d.Seconds(), Unit: Seconds} }

// Size is a figure of bytes.
func Size[N ~int | ~int64 | ~uint64 | ~float64](n N) *Figure {
	return &Figure{Value: float64(n), Unit: Bytes}
}

// Number is a figure of things.
func Number[N ~int | ~int64 | ~uint64 | ~float64](n N) *Figure { return &Figure{Value: float64(n)} }

// String is the figure for people, with three digits that count, "≥" before one that is a bound, and "–" for a nil figure.
func (f *Figure) String() string {
	if f == nil {
		return "–"
	}
	text := f.text()
	if f.AtLeast {
		return "≥ " + text
	}
	return text
}

func (f *Figure) text() string {
	switch f.Unit {
	case Seconds:
		return scaled(f.Value, "s", []step{{1e-6, "ns", 1e9}, {1e-3, "µs", 1e6}, {1, "ms", 1e3}, {120, "s", 1}, {7200, "min", 1. / 60}, {math.Inf(1), "h", 1. / 3600}})
	case Bytes:
		return scaled(f.Value, "B", []step{{1 << 10, "B", 1}, {1 << 20, "KiB", 1. / (1 << 10)}, {1 << 30, "MiB", 1. / (1 << 20)}, {math.Inf(1), "GiB", 1. / (1 << 30)}})
	case Count:
	}
	return digits(f.Value)
}

// step is a unit for values below a bound.
type step struct {
	below  float64
	name   string
	factor float64
}

func scaled(value float64, zero string, steps []step) string {
	if value == 0 {
		return "0 " + zero
	}
	for _, s := range steps {
		if math.Abs(value) < s.below {
			return digits(value*s.factor) + " " + s.name
		}
	}
	return digits(value)
}

// digits keeps three digits, and all of those before the point, in groups of three.
func digits(v float64) string {
	if v == 0 {
		return "0"
	}
	places := max(0, 2-int(math.Floor(math.Log10(math.Abs(v)))))
	text := strconv.FormatFloat(v, 'f', places, 64)
	if v == math.Trunc(v) {
		text = strconv.FormatFloat(v, 'f', 0, 64)
	}
	return grouped(text)
}

func grouped(text string) string {
	whole, rest := text, ""
	for i, r := range text {
		if r == '.' {
			whole, rest = text[:i], text[i:]
		}
	}
	start := 0
	if whole[0] == '-' {
		start = 1
	}
	if len(whole)-start < 5 {
		return text
	}
	for i := len(whole) - 3; i > start; i -= 3 {
		whole = whole[:i] + " " + whole[i:]
	}
	return whole + rest
}

// ratioText is a quotient for people.
func ratioText(r float64) string {
	if math.IsInf(r, 0) || math.IsNaN(r) {
		return "–"
	}
	return fmt.Sprintf("%s ×", digits(r))
}
