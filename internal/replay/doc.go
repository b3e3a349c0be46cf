// Package replay lets the real clients of packages legacy, modern and migrate follow the model of
// package skew, an event at a time, and compares after each event what stands on the server and what
// every client believes. Model and code cannot drift apart unnoticed: what the model allows and the code
// does not do fails the test that replays it, and so does the reverse.
//
// Every command of every client stands still before the server until the schedule lets it run, and so
// does its reply. Time is the world's and moves by ticks; each reading of an old client's clock is told
// what to show.
//
// It checks one schedule after the other and proves nothing about those that it was not given. What a
// tick is too coarse for (that the settle is 100 ms longer than the gap, say) it cannot see. Wake-ups are
// none of it: the embedded server has no tracking.
package replay
