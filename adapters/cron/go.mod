module github.com/getsetlock/getsetlock/adapters/cron

go 1.26.0

require (
	github.com/getsetlock/getsetlock v0.0.0-20261128133937-bf6154e2a70c
	github.com/robfig/cron/v3 v3.0.1
)

require golang.org/x/sys v0.49.0 // indirect
