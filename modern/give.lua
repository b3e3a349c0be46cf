-- give: key, counter, order, alive, gives; token, ms for who must fetch it, 1 fair, TIME or '' twice → 1 when the key was ours and is given on or deleted, 0 when it was not
local mine = ARGV[1]
