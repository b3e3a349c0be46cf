// SPDX-License-Identifier: Apache-2.0

package dialect_test

import (
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

func ExampleDialect_Stamp() {
	now := time.UnixMilli(1_400_000_000_123)
	for _, name := range []string{"jedis", "page", "redis-py", "gorlock"} {
		d, err := dialect.Lookup(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		text, err := d.Stamp(now, 30*time.Second, "")
		fmt.Println(d, text, err)
	}
	// Output:
	// Jedis 1400000030124 <nil>
	// Page 1400000031 <nil>
	// RedisPy 1400000030.1230001 <nil>
	// Gorlock 1400000030123000000 <nil>
}

func ExampleDialect_Decode() {
	serverNow := time.Unix(1_400_000_000, 0)
	s, err := dialect.Jedis().Decode("1400000030124", serverNow)
	fmt.Println(s.Expiry.Sub(serverNow), err)
	_, err = dialect.Jedis().Decode("1400000031", serverNow) // seconds where milliseconds belong
	fmt.Println(err)
	// Output:
	// 30.124s <nil>
	// value "1400000031" is no stamp of Jedis: no plausible time; it may be a stamp in s for 2014-05-13T16:53:51.000Z (Kdyby, Page, PageGet, PageNil, ResqueTimeout)
}

func ExampleDialect_LegacyNext() {
	now := time.Unix(1_400_000_000, 0)
	live := dialect.Text("1400000030124")
	fmt.Println("Jedis sees a live number and does:", dialect.Jedis().LegacyNext(live, "", now))
	fmt.Println("JedisUUID sees it and does:", dialect.JedisUUID().LegacyNext(live, "", now))
	// Output:
	// Jedis sees a live number and does: wait
	// JedisUUID sees it and does: getset
}

func ExampleDialect_CheckLease() {
	d := dialect.Errorception()
	terms, err := d.Terms(dialect.Terms{Spread: 500 * time.Millisecond})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d.CheckLease(4*time.Second, terms))
	fmt.Println(d.CheckLease(5*time.Second, terms))
	// Output:
	// <nil>
	// lease rule: TTL 5s is too long: alongside Errorception clients with Lease 5s at most 4.25s is safe (Lease + c 0s - Spread 500ms - Gap 250ms)
}

func ExampleParse() {
	d, err := dialect.Parse([]byte(`{"base": "kdyby", "name": "Kdyby8", "reader": "php8"}`))
	fmt.Println(d, d.Lease, err)
	_, err = dialect.Parse([]byte(`{"base": "kdyby", "name": "Kdyby8", "laese": "20s"}`))
	fmt.Println(err)
	// Output:
	// Kdyby8 15s <nil>
	// dialect: json: unknown field "laese"
}
