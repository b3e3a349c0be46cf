package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

func TestSmoke(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("N"))
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	leases := 0
	for i := from; i < from+n; i++ {
		h := Play(t, Draw(uint64(i)))
		leases += h.Leases()
		for _, c := range Judge(h) {
			fmt.Println(i, h.Plan.Form, c)
		}
		if n == 1 {
			fmt.Println(h)
		}
	}
	fmt.Println(leases)
}
