// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"testing"
	"time"
)

// Every poll of every waiter makes a stamp, reads a value and judges it once.
func BenchmarkPoll(b *testing.B) {
	d, now := Jedis(), tableNow
	b.ReportAllocs()
	for b.Loop() {
		text, err := d.Stamp(now, time.Minute, "")
		if err != nil {
			b.Fatal(err)
		}
		if d.LegacyNext(Text(text), "", now) != StepWait {
			b.Fatal("stolen")
		}
		if _, err := d.Decode(text, now); err != nil {
			b.Fatal(err)
		}
	}
}

// A census asks this of every value on a server.
func BenchmarkIdentify(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if len(Identify("1400000060124", tableNow, Hints{})) == 0 {
			b.Fatal("nothing")
		}
	}
}
