// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// Distribution is how a span varies: a job's length, a message's way, a rest
// between jobs. The zero value is a constant 0. Spans are not negative. A draw
// beyond ten years, which only the unbounded forms can make, counts as ten
// years.
type Distribution struct {
	kind distributionKind
	a, b time.Duration // constant: a; uniform: a to b; exp: mean a; lognormal: median a, 99th percentile b
	list []time.Duration
}

type distributionKind uint8

const (
	constant distributionKind = iota
	uniform
	exponential
	logNormal
	listed
)

// distributionForms is what the error for an unreadable distribution lists.
const distributionForms = "5s, 5s..40s, exp:10s, lognormal:p50=5s,p99=40s, or a list 1s,2s,2.5s"

// mostRatio bounds a lognormal: its 99th percentile is at most this many times
// its median.
const mostRatio = 1_000_000

// z99 is the 99th percentile of the standard normal distribution.
const z99 = 2.3263478740408408

// ListOf draws from measured spans, each equally likely. The error names the
// element.
func ListOf(field string, spans []time.Duration) (Distribution, error) {
	if len(spans) == 0 {
		return Distribution{}, impossible(field, "an empty list", "at least one duration")
	}
	d := Distribution{kind: listed, list: append([]time.Duration(nil), spans...)}
	return d, d.check(field)
}

// ParseDistribution reads a distribution in the form of a flag. It fails with a
// *skew.ParameterError that names the field and the bound.
func ParseDistribution(field, text string) (Distribution, error) {
	d, err := parseDistribution(field, text)
	if err != nil {
		return Distribution{}, err
	}
	return d, d.check(field)
}

func parseDistribution(field, text string) (d Distribution, err error) {
	if mean, ok := strings.CutPrefix(text, "exp:"); ok {
		d.kind = exponential
		d.a, err = parseSpan(field, mean)
		return d, err
	}
	if rest, ok := strings.CutPrefix(text, "lognormal:"); ok {
		d.kind = logNormal
		median, rest, ok1 := strings.Cut(rest, ",")
		median, ok2 := strings.CutPrefix(median, "p50=")
		high, ok3 := strings.CutPrefix(rest, "p99=")
		if !ok1 || !ok2 || !ok3 {
			return d, impossible(field, quote(text), "lognormal:p50=5s,p99=40s")
		}
		if d.a, err = parseSpan(field, median); err == nil {
			d.b, err = parseSpan(field, high)
		}
		return d, err
	}
	if low, high, ok := strings.Cut(text, ".."); ok {
		d.kind = uniform
		if d.a, err = parseSpan(field, low); err == nil {
			d.b, err = parseSpan(field, high)
		}
		return d, err
	}
	if strings.Contains(text, ",") {
		d.kind = listed
		for _, part := range strings.Split(text, ",") {
			span, err := parseSpan(field, part)
			if err != nil {
				return d, err
			}
			d.list = append(d.list, span)
		}
		return d, nil
	}
	d.a, err = parseSpan(field, text)
	return d, err
}

func quote(text string) string { return fmt.Sprintf("%.80q", text) }

func parseSpan(field, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	// Go reads 5s.40s as 5.4 s. It is a range with a dot missing.
	if err != nil || dotAfterUnit.MatchString(text) {
		return 0, impossible(field, quote(text), "a duration or a distribution: "+distributionForms)
	}
	return d, checkSpan(field, d)
}

var dotAfterUnit = regexp.MustCompile(`[a-z]\.`)

func checkSpan(field string, d time.Duration) error {
	if d < 0 {
		return impossible(field, d, "at least 0")
	}
	if d > dialect.LongestStamp {
		return impossible(field, d, fmt.Sprintf("at most %v", dialect.LongestStamp))
	}
	return nil
}

func (d Distribution) check(field string) error {
	for _, span := range append([]time.Duration{d.a, d.b}, d.list...) {
		if err := checkSpan(field, span); err != nil {
			return err
		}
	}
	switch {
	case d.kind == uniform && d.b < d.a:
		return impossible(field, d, "written with the smaller end first")
	case d.kind == logNormal && d.a == 0:
		return impossible(field, d, "a p50 of more than 0")
	case d.kind == logNormal && d.b < d.a:
		return impossible(field, d, "a p99 not less than the p50")
	case d.kind == logNormal && d.b/mostRatio > d.a:
		return impossible(field, d, fmt.Sprintf("a p99 of at most %d times the p50", mostRatio))
	}
	return nil
}

// String returns a form that ParseDistribution reads back.
func (d Distribution) String() string {
	switch d.kind {
	case uniform:
		return d.a.String() + ".." + d.b.String()
	case exponential:
		return "exp:" + d.a.String()
	case logNormal:
		return "lognormal:p50=" + d.a.String() + ",p99=" + d.b.String()
	case listed:
		parts := make([]string, len(d.list))
		for i, span := range d.list {
			parts[i] = span.String()
		}
		return strings.Join(parts, ",")
	}
	return d.a.String()
}

// longest returns the longest span that can be drawn; it is unbounded for exp
// and lognormal.
func (d Distribution) longest() skew.Limit {
	switch d.kind {
	case exponential, logNormal:
		return skew.Limit{}
	case uniform:
		return skew.Limit{Bound: d.b, Bounded: true}
	case listed:
		longest := d.list[0]
		for _, span := range d.list {
			longest = max(longest, span)
		}
		return skew.Limit{Bound: longest, Bounded: true}
	}
	return skew.Limit{Bound: d.a, Bounded: true}
}

// Most returns the longest span that Draw returns. The forms without an upper
// end are cut at a thousand times their mean or median.
func (d Distribution) Most() time.Duration {
	const times = 1000
	if l := d.longest(); l.Bounded {
		return l.Bound
	}
	return min(d.a, dialect.LongestStamp/times) * times
}

// Draw returns one span, at most that of Most.
func (d Distribution) Draw(random *rand.Rand) time.Duration {
	span := time.Duration(d.draw(random))
	if d.kind == exponential || d.kind == logNormal {
		span = min(span, d.Most())
	}
	return span
}

// draw returns one span, in nanoseconds.
func (d *Distribution) draw(random *rand.Rand) int64 {
	var f float64
	switch d.kind {
	case constant:
		return int64(d.a)
	case uniform:
		return int64(d.a) + random.Int64N(int64(d.b-d.a)+1)
	case listed:
		return int64(d.list[random.IntN(len(d.list))])
	case exponential:
		f = float64(d.a) * random.ExpFloat64()
	case logNormal:
		sigma := math.Log(float64(d.b)/float64(d.a)) / z99
		f = float64(d.a) * math.Exp(sigma*random.NormFloat64())
	}
	return int64(min(f, float64(dialect.LongestStamp)))
}
