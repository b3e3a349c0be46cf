// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Clocks says how wrong the clients' clocks are and how often the clients stand
// still. The zero value is perfect clocks and no pauses.
type Clocks struct {
	// Offsets at the start. Each client's is drawn evenly from Low to High; if
	// LogEven, log-evenly from Low to High with a random sign; if there are
	// Choices, it is one of them.
	Low, High time.Duration
	LogEven   bool
	Choices   []time.Duration
	// Share is the part of the fleet that offsets, steps and slews befall, from
	// more than 0 to 1, and at least one client. Zero means all.
	Share float64
	// PPM bounds each client's constant rate error, drawn evenly from −PPM to
	// +PPM. With that error the clocks ran free for Age before the start.
	PPM float64
	Age time.Duration

	Step   Steps
	Slew   Slews
	Pauses []Pause

	Server ServerTroubles // troubles of the server's clock, which otherwise is right
}

// Steps are jumps of single clients' clocks. Every is the mean time between two
// steps of one client or, if Once, the time of its only one. Zero means none.
type Steps struct {
	Kind  StepKind
	By    time.Duration // size and sign for StepBy, size for StepInward
	Every time.Duration
	Once  bool
}

// StepKind says where a step goes.
type StepKind string

// The step kinds.
const (
	StepBy     StepKind = "by"     // by By, sign included
	StepInward StepKind = "inward" // by By, towards the right time
	StepRight  StepKind = "right"  // to the right time
	StepAnew   StepKind = "anew"   // to a newly drawn offset
)

// Slews are spans in which a client's clock runs fast or slow, at random. What
// it has gained or lost by then stays. Every and Once are as in Steps.
type Slews struct {
	PPM   float64
	For   time.Duration // length; the longest, if Towards
	Every time.Duration
	Once  bool

	// Towards says that the clock moves to the right time, as a daemon slews
	// it, and that the slew ends there.
	Towards bool
}

// Pause is one kind of standstill of a client: its length, and the mean time
// between two.
type Pause struct {
	For, Every time.Duration
}

// Preset is a named state of a fleet, and the source of its figures.
type Preset struct {
	Name   string
	Shape  string // in words
	Source string // source of the figures
	// Ours is what we assumed because the source does not say it: mostly how
	// often.
	Ours   string
	Clocks Clocks
}

const day = 24 * time.Hour

// Presets returns all presets, from the best clocks to the worst. Each call
// makes new copies.
func Presets() []Preset {
	return slices.Concat(clockPresets(), troublePresets(), serverPresets())
}

func clockPresets() []Preset {
	return []Preset{
		{"ptp", "±0.05 ms", "EC2's PTP hardware clock reports ±5 µs, NTP over its link-local address ±98 µs",
			"",
			Clocks{Low: -50 * time.Microsecond, High: 50 * time.Microsecond}},
		{"chrony", "±1 ms", "Facebook 2020: hundreds of microseconds with chrony in a large data centre", "",
			Clocks{Low: -time.Millisecond, High: time.Millisecond}},
		{"ntpd", "±10 ms", "Facebook 2020 (before chrony) and Huygens, NSDI 2018: the level of milliseconds",
			"",
			Clocks{Low: -10 * time.Millisecond, High: 10 * time.Millisecond}},
		{"ntpd-step", "±128 ms, steps of 128 ms", "ntpd slews at up to 500 ppm and steps above 128 ms",
			"one step an hour of each client",
			Clocks{Low: -128 * time.Millisecond, High: 128 * time.Millisecond,
				Step: Steps{Kind: StepInward, By: 128 * time.Millisecond, Every: time.Hour}}},
		{"timesyncd", "±400 ms, steps of 0.4 s",
			"systemd-timesyncd steps at 0.4 s, which can't be configured",
			"one step an hour of each client",
			Clocks{Low: -400 * time.Millisecond, High: 400 * time.Millisecond,
				Step: Steps{Kind: StepInward, By: 400 * time.Millisecond, Every: time.Hour}}},
		{"free-run", "30 ppm for a number of days: free-run:7 is a week, free-run one day (2.6 s)",
			"Huygens, NSDI 2018: typically 5 to 10 µs a second, up to 30", "",
			Clocks{PPM: 30, Age: day}},
		{"slewing", "±1 s, slewed to the right time at 83,333 ppm", "chrony's default maxslewrate",
			"a new error once an hour of each client, a slew a minute",
			Clocks{Low: -time.Second, High: time.Second, Step: Steps{Kind: StepAnew, Every: time.Hour},
				Slew: Slews{PPM: 83_333, For: time.Minute, Every: 2 * time.Minute, Towards: true}}},
	}
}

func troublePresets() []Preset {
	return []Preset{
		{"bad-hypervisor", "18,000 ppm for 15 minutes", "an EC2 incident of December 2016: 16.27 s in 900 s",
			"once, after 5 minutes, a quarter of the fleet",
			Clocks{Share: 0.25, Slew: Slews{
				PPM: 18_078, For: 15 * time.Minute, Every: 5 * time.Minute, Once: true}}},
		{"boot", "0 … 1 s, then a step", "GFiber's devices, 2016", "the step comes after 5 minutes",
			Clocks{High: time.Second, Step: Steps{Kind: StepRight, Every: 5 * time.Minute, Once: true}}},
		{"leap", "a step of −1 s on part of the fleet", "an unsmeared leap second: Cloudflare, 2017-01-01",
			"half of the fleet, after 5 minutes",
			Clocks{Share: 0.5, Step: Steps{
				Kind: StepBy, By: -time.Second, Every: 5 * time.Minute, Once: true}}},
		{"vm-pause", "pauses of 1, 5, 10 and 30 s",
			"Azure's live migration: at most 5 s mostly, nearly always below 10 s, rarely about 30 s",
			"a day from one to the next of each of the first two kinds, a week for 10 s, a month for 30 s",
			Clocks{Pauses: []Pause{{time.Second, day}, {5 * time.Second, day}, {10 * time.Second, 7 * day},
				{30 * time.Second, 30 * day}}}},
		{"jvm-gc", "50 ms every 3 s, and 5 s once a day",
			"LinkedIn: tuned CMS pauses of 40 to 60 ms; a stop of more than 5 s, 2016", "",
			Clocks{Pauses: []Pause{{50 * time.Millisecond, 3 * time.Second}, {5 * time.Second, day}}}},
		{"human", "±1 h or ±1 day", "a hardware clock in local time, a date typed wrongly",
			"a quarter of the fleet",
			Clocks{Share: 0.25, Choices: []time.Duration{-day, -time.Hour, time.Hour, day}}},
		{"jepsen", "log-even from 11 ms to 288 s, random sign", "Jepsen's clock nemesis",
			"drawn anew once a minute for each client",
			Clocks{Low: 11 * time.Millisecond, High: 288 * time.Second, LogEven: true,
				Step: Steps{Kind: StepAnew, Every: time.Minute}}},
	}
}

// serverPresets afflict only the server.
func serverPresets() []Preset {
	return []Preset{
		{"server-step", "the server's clock steps by 0.4 s, to and fro",
			"systemd-timesyncd steps at 0.4 s, which can't be configured",
			"one step an hour", Clocks{
				Server: ServerTroubles{
					Step: Steps{Kind: StepInward, By: 400 * time.Millisecond, Every: time.Hour}}}},
		{"server-slew", "the server's clock gains 60 s in 33 hours, 500 ppm",
			"ntpd -x slews offsets of up to 600 s at 500 ppm",
			"60 s, once, after 5 minutes",
			Clocks{Server: ServerTroubles{
				Slew: Slews{PPM: 500, For: 120_000 * time.Second, Every: 5 * time.Minute, Once: true}}}},
		{"fail-over", "to a server whose clock is 2 minutes ahead",
			"Huygens, NSDI 2018: up to 30 µs a second, which in 46 days is 2 minutes",
			"a replica that ran free for so long, once, after 5 minutes",
			Clocks{Server: ServerTroubles{
				Step: Steps{Kind: StepBy, By: 2 * time.Minute, Every: 5 * time.Minute, Once: true}}}},
	}
}

// PresetNames lists the names, in the order of Presets.
func PresetNames() []string {
	var out []string
	for _, p := range Presets() {
		out = append(out, p.Name)
	}
	return out
}

// Lookup finds a preset. It ignores case, hyphens and underscores; "free-run:7"
// is seven days of free-run. It fails with a *skew.ParameterError that lists
// the names.
func Lookup(name string) (Preset, error) {
	plain, days, timed := strings.Cut(name, ":")
	for _, p := range Presets() {
		if foldName(p.Name) != foldName(plain) {
			continue
		}
		if !timed {
			return p, nil
		}
		if p.Clocks.Age == 0 {
			return Preset{}, impossible("preset", quote(name), "without a number: only free-run takes one")
		}
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || !(n > 0 && n <= 3652) {
			return Preset{}, impossible("preset", quote(name),
				"free-run:DAYS, more than 0 and at most 3652 days")
		}
		p.Name = "free-run:" + days
		p.Clocks.Age = time.Duration(n * float64(day))
		return p, nil
	}
	return Preset{}, impossible("preset", quote(name), "one of "+strings.Join(PresetNames(), ", "))
}

func foldName(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(name))
}

// Spread bounds the fleet's spread within a run of that length: greatest less
// smallest offset that can be drawn, stepped to, drifted to or slewed to. The
// law is asked with it for a preset. Steps by a fixed amount and slews that
// repeat count twice their mean number, plus one.
func (c Clocks) Spread(long time.Duration) time.Duration {
	low, high := c.offsets()
	if c.Share > 0 && c.Share < 1 {
		low, high = min(low, 0), max(high, 0)
	}
	drifted := time.Duration(c.PPM / 1e6 * float64(c.Age+long))
	low, high = low-drifted, high+drifted
	if c.Step.Every > 0 {
		switch c.Step.Kind {
		case StepBy:
			by := time.Duration(times(c.Step.Every, c.Step.Once, long)) * c.Step.By
			low, high = low+min(0, by), high+max(0, by)
		case StepRight:
			low, high = min(low, 0), max(high, 0)
		}
	}
	switch {
	case c.Slew.Every > 0 && c.Slew.Towards:
		low, high = min(low, 0), max(high, 0)
	case c.Slew.Every > 0:
		slewed := time.Duration(times(c.Slew.Every, c.Slew.Once,
			long) * c.Slew.PPM / 1e6 * float64(c.Slew.For))
		low, high = low-slewed, high+slewed
	}
	return high - low
}

func times(every time.Duration, once bool, long time.Duration) float64 {
	if once {
		return 1
	}
	return 1 + 2*float64(long/every)
}

func (c Clocks) offsets() (low, high time.Duration) {
	switch {
	case len(c.Choices) > 0:
		return slices.Min(c.Choices), slices.Max(c.Choices)
	case c.LogEven:
		return -c.High, c.High
	}
	return c.Low, c.High
}

// mostPauses is the greatest number of kinds of pause.
const mostPauses = 8
