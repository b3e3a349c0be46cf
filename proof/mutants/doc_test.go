// SPDX-License-Identifier: Apache-2.0

// Package mutants proves that tests can fail. Each mutant is one small change
// of the source that makes it wrong, and names the one test that must fail.
//
// The lists are the files *.txt next to this file, one mutant a paragraph:
//
//	file legacy/terms.go
//	test ./legacy TestTheTestThatMustFail
//	- 	if a < b {
//	+ 	if a <= b {
//
// The lines after "-" must occur exactly once in the file, and the lines after
// "+" replace them. Lines that begin with "#" are comments. "test" may end with
// build tags, as in "test ./internal/operator/audit TestOnAServer tags=real".
//
// Plain go test only checks the lists: that each text still occurs once, and
// that each test exists. The flag -mutants builds and runs them:
//
//	go test ./proof/mutants -mutants all           every mutant
//	go test ./proof/mutants -mutants changed       those whose file or test the last commit changed,
//	                                               and a twelfth, drawn by the hash of that commit
//	go test ./proof/mutants -mutants legacy/       those of files that begin so
//	go test ./proof/mutants -mutants doubt         those of lists that begin so
//
// The flag -simulation plays seeds of internal/sim against the mutants instead,
// and counts how many it kills:
//
//	go test ./proof/mutants -run Simulation -simulation 100 -v
//
// The simulation judges what processes do. It cannot see a mutant that only
// changes the words of an error, a line of a log, or what no operation of the
// simulation uses. Such mutants are not counted. The variable unseen names the
// tests that guard them, with a reason each.
//
// No file of the source tree changes: the compiler gets the changed file as an
// overlay. A mutant that does not compile is an error of the list. Before the
// mutants, all the tests that they name must pass unchanged.
package mutants
