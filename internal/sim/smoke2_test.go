package sim

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestTwice(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("N"))
	from, _ := strconv.Atoi(os.Getenv("FROM"))
	bad := 0
	Trace = os.Getenv("T") != ""
	for i := from; i < from+n; i++ {
		a := Play(t, Draw(uint64(i))).String()
		b := Play(t, Draw(uint64(i))).String()
		if a != b {
			bad++
			x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
			for j := range x {
				if j >= len(y) || x[j] != y[j] {
					fmt.Println(i, Draw(uint64(i)).Form)
					fmt.Println(strings.Join(x[max(j-3, 0):min(j+3, len(x))], "\n"))
					fmt.Println("--")
					fmt.Println(strings.Join(y[j:min(j+3, len(y))], "\n"))
					break
				}
			}
		}
	}
	fmt.Println("different:", bad)
}
