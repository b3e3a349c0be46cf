-- give: key, order, alive; token, ms of a reservation → 1 when the key was ours and is reserved for the next or deleted, 0 when it was not
return hand(ARGV[1], ARGV[2])
