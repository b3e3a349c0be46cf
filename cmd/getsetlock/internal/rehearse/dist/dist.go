// SPDX-License-Identifier: Apache-2.0

// Package dist is the flag for distributions of durations. It takes those that
// package simulate reads, and file:holds.txt, a file with one duration a line,
// all equally likely.
package dist

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/simulate"
	"github.com/getsetlock/getsetlock/skew"
)

// Dist is a distribution of durations. The zero Dist is the constant zero.
type Dist struct {
	simulate.Distribution
	text string // as it was written
}

// String returns the text that Parse read.
func (d Dist) String() string {
	if d.text == "" {
		return d.Distribution.String()
	}
	return d.text
}

// Set is Parse, for flags.
func (d *Dist) Set(text string) (err error) {
	*d, err = Parse(text)
	return err
}

// Type returns the name of the value in a flag's help.
func (d *Dist) Type() string { return "distribution" }

// Parse reads a distribution, and reads a file at once.
func Parse(text string) (Dist, error) {
	d := Dist{text: text}
	var err error
	if name, ok := strings.CutPrefix(text, "file:"); ok {
		d.Distribution, err = readFile(name)
	} else {
		d.Distribution, err = simulate.ParseDistribution("distribution", text)
	}
	var wrong *skew.ParameterError
	switch {
	case errors.As(err, &wrong):
		return Dist{}, fmt.Errorf("%v: it must be %s", wrong.Value, wrong.Bound)
	case err != nil:
		return Dist{}, err
	}
	return d, nil
}

func readFile(name string) (simulate.Distribution, error) {
	f, err := os.Open(name)
	if err != nil {
		return simulate.Distribution{}, err
	}
	defer f.Close()
	var all []time.Duration
	scan := bufio.NewScanner(f)
	for n := 1; scan.Scan(); n++ {
		line := strings.TrimSpace(scan.Text())
		if line == "" {
			continue
		}
		d, err := time.ParseDuration(line)
		if err != nil || d < 0 {
			return simulate.Distribution{},
				fmt.Errorf("%s: line %d: %.80q is not a duration such as 90s", name, n, line)
		}
		all = append(all, d)
	}
	if err := scan.Err(); err != nil {
		return simulate.Distribution{}, fmt.Errorf("%s: %w", name, err)
	}
	return simulate.ListOf("the file's durations", all)
}
