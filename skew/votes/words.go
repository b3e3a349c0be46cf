package votes

// words says who does what in an event, given the world before and after it. A
// tick has no words unless a client's trust ends with it.
func (x *explorer) words(before, after *world, e event, name string) (who, does string) {
	m, now := before.members[e.at], after.members[e.at]
	switch e.kind {
	case evTick:
		if x.trusts(before) && !x.trusts(after) {
			return "holder", "its trust ends"
		}
		return "", ""
	case evExecute:
		return name, x.executed(before, m, now)
	case evReply:
		return "holder", replied(before, after)
	case evRenew:
		return "holder", "sends a renewal"
	case evStart:
		return "rival", "asks all members"
	case evRival:
		switch {
		case now.owner != rival:
			return name, "refuses the rival"
		case after.rival == holding:
			return name, "votes for the rival: it holds"
		}
		return name, "votes for the rival"
	case evRelease:
		return "rival", "releases"
	}
	return name, x.struck(e.kind, m, now)
}

// struck says what befell a member.
func (x *explorer) struck(k kind, was, now member) string {
	switch {
	case k == evLose:
		return "loses the " + was.owner.String() + "'s key"
	case k == evRestart && x.Wait:
		return "restarts without its data, and waits"
	case k == evRestart:
		return "restarts without its data"
	case now.owner == nobody:
		return "jumps forwards: the " + was.owner.String() + "'s key expires"
	}
	return "jumps forwards"
}

func (c client) String() string { return [...]string{"nobody", "holder", "rival"}[c] }

// executed says what a member did with a request of the holder.
func (x *explorer) executed(before *world, was, now member) string {
	switch {
	case now.mine == askNone && (before.rounds == 0 || was.mine == askTake):
		return "refuses the holder"
	case now.mine == askNone:
		return "does not have the holder's key"
	case was.owner == holder:
		return "renews the holder's vote"
	case before.rounds == 0:
		return "votes for the holder"
	}
	return "votes for the holder again"
}

// replied says what the replies told the holder.
func replied(before, after *world) string {
	switch {
	case before.holder == asking && after.holder == holding:
		return "reads the replies: it holds"
	case before.holder == renewing && after.holder == holding:
		return "reads the replies: it is renewed"
	case before.holder != over && after.holder == over:
		return "reads the replies: too late, the lease has ended"
	}
	return "reads a late reply"
}
