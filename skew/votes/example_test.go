package votes_test

import (
	"fmt"

	"github.com/getsetlock/getsetlock/skew/votes"
)

// Five members, one of which lost the key. A getsetlock client has all votes, a
// client that stops asking at a majority has three.
func ExampleLaw() {
	for _, held := range []int{5, 3} {
		v, err := votes.Law{Members: 5, Votes: held, Lost: 1}.Verdict()
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d votes: two can hold %v, early ends survived %d\n", held, v.TwoHold, v.Survives)
	}
	// Output:
	// 5 votes: two can hold false, early ends survived 2
	// 3 votes: two can hold true, early ends survived 0
}

// Explore tries every order of requests and replies. Its trace is a shortest
// one in which two hold at once.
func ExampleExplore() {
	x, err := votes.Explore(votes.Scenario{Members: 3, Votes: 2, TTL: 2, Restarted: 1})
	if err != nil {
		panic(err)
	}
	for _, step := range x.Trace {
		fmt.Println(step)
	}
	// Output:
	//    0  A       votes for the holder
	//    0  B       votes for the holder
	//    0  holder  reads the replies: it holds
	//    0  A       restarts without its data
	//    0  rival   asks all members
	//    0  A       votes for the rival
	//    0  C       votes for the rival: it holds
}
