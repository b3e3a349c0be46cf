// SPDX-License-Identifier: Apache-2.0

package reading

import "testing"

func TestJedisIsTriedFirst(t *testing.T) {
	if Likeliest()[0].Name != "Jedis" {
		t.Error("no Jedis")
	}
}
