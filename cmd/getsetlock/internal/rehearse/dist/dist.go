// Package dist reads distributions of durations as the command line has them,
// and draws from them:
//
//	5s                       always the same
//	5s..40s                  uniform, both ends included
//	exp:10s                  exponential with that mean
//	lognormal:p50=5s,p99=40s lognormal with these two quantiles
//	file:holds.txt           one duration a line, all equally likely
//
// Draws depend only on the generator that the caller passes. The two shapes
// without an upper end are cut at a thousand times their mean or median: longer
// draws would be useless, and sums of draws must not overflow.
package dist

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// longest is the greatest duration that a distribution may hold. Sums of
// thousands stay far from overflow.
const longest = 24 * 365 * time.Hour

// z99 is the 99th percentile of a normal distribution, in standard deviations
// above its median.
const z99 = 2.3263478740408408

// cut is how many times its mean or median an unbounded shape can be drawn.
const cut = 1000

// Dist is a distribution of durations, none of them negative. The zero Dist is
// the constant zero.
type Dist struct {
	text string
	draw func(*rand.Rand) time.Duration
	most time.Duration
}

// Const returns the distribution that always draws d.
func Const(d time.Duration) Dist {
	return Dist{text: d.String(), most: d, draw: func(*rand.Rand) time.Duration { return d }}
}

// Draw returns the next duration from r.
func (d Dist) Draw(r *rand.Rand) time.Duration {
	if d.draw == nil {
		return 0
	}
	return d.draw(r)
}

// Most returns the greatest duration that Draw can return.
func (d Dist) Most() time.Duration { return d.most }

// String returns the text that Parse read.
func (d Dist) String() string {
	if d.draw == nil {
		return "0s"
	}
	return d.text
}

// MarshalText writes what UnmarshalText reads. For a file it is the name, not
// the durations.
func (d Dist) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText is Parse.
func (d *Dist) UnmarshalText(text []byte) (err error) {
	*d, err = Parse(string(text))
	return err
}

// Set is Parse, for flags.
func (d *Dist) Set(text string) error { return d.UnmarshalText([]byte(text)) }

// Type returns the name of the value in a flag's help.
func (d *Dist) Type() string { return "distribution" }

// Parse reads a distribution, and reads a file at once. The error names the
// part that it could not read.
func Parse(text string) (Dist, error) {
	d, err := parse(text)
	if err != nil {
		return Dist{}, fmt.Errorf("distribution %q: %w", text, err)
	}
	d.text = text
	return d, nil
}

func parse(text string) (Dist, error) {
	if rest, ok := strings.CutPrefix(text, "exp:"); ok {
		return parseExp(rest)
	}
	if rest, ok := strings.CutPrefix(text, "lognormal:"); ok {
		return parseLognormal(rest)
	}
	if name, ok := strings.CutPrefix(text, "file:"); ok {
		return parseFile(name)
	}
	if low, high, ok := strings.Cut(text, ".."); ok {
		return parseUniform(low, high)
	}
	d, err := duration(text)
	return Const(d), err
}

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration such as 90s, 1m30s or 250ms", text)
	case d < 0:
		return 0, fmt.Errorf("%v is negative", d)
	case d > longest:
		return 0, fmt.Errorf("%v is longer than a year", d)
	}
	return d, nil
}

func parseUniform(lowText, highText string) (Dist, error) {
	low, err := duration(lowText)
	if err != nil {
		return Dist{}, err
	}
	high, err := duration(highText)
	if err != nil {
		return Dist{}, err
	}
	if high < low {
		return Dist{}, fmt.Errorf("%v is greater than %v", low, high)
	}
	return Dist{most: high, draw: func(r *rand.Rand) time.Duration {
		return low + time.Duration(r.Int64N(int64(high-low)+1))
	}}, nil
}

func parseExp(text string) (Dist, error) {
	mean, err := duration(text)
	if err != nil {
		return Dist{}, err
	}
	most := capped(mean)
	return Dist{most: most, draw: func(r *rand.Rand) time.Duration {
		return bounded(r.ExpFloat64()*float64(mean), most)
	}}, nil
}

func parseLognormal(text string) (Dist, error) {
	var p50, p99 time.Duration
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		d, err := duration(value)
		if err != nil {
			return Dist{}, err
		}
		switch name {
		case "p50":
			p50 = d
		case "p99":
			p99 = d
		default:
			return Dist{}, fmt.Errorf("%q is neither p50=… nor p99=…", part)
		}
	}
	if p50 <= 0 || p99 < p50 {
		return Dist{}, errors.New("p50 must be above zero and p99 at least p50")
	}
	mu, most := math.Log(float64(p50)), capped(p50)
	sigma := (math.Log(float64(p99)) - mu) / z99
	return Dist{most: most, draw: func(r *rand.Rand) time.Duration {
		return bounded(math.Exp(mu+sigma*r.NormFloat64()), most)
	}}, nil
}

func capped(middle time.Duration) time.Duration {
	return min(middle, longest/cut) * cut
}

// bounded compares before it converts: a float above the greatest int64 has no
// defined conversion.
func bounded(ns float64, most time.Duration) time.Duration {
	if ns >= float64(most) {
		return most
	}
	return time.Duration(ns)
}

func parseFile(name string) (Dist, error) {
	f, err := os.Open(name)
	if err != nil {
		return Dist{}, err
	}
	defer f.Close()
	all, err := readLines(f)
	if err != nil {
		return Dist{}, fmt.Errorf("%s: %w", name, err)
	}
	var most time.Duration
	for _, d := range all {
		most = max(most, d)
	}
	return Dist{most: most, draw: func(r *rand.Rand) time.Duration { return all[r.IntN(len(all))] }}, nil
}

func readLines(r io.Reader) ([]time.Duration, error) {
	var all []time.Duration
	scan := bufio.NewScanner(r)
	for n := 1; scan.Scan(); n++ {
		line := strings.TrimSpace(scan.Text())
		if line == "" {
			continue
		}
		d, err := duration(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, d)
	}
	if err := scan.Err(); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("it has no durations")
	}
	return all, nil
}
