-- leave: key, order, alive; place, ms of a reservation, TIME or '' twice → 1 when the key was ours, or reserved for us, and is given up, 0 when it was not
local _, token = parts(ARGV[1])
if hand(token, ARGV[2]) == 1 or hand(reserved(token), ARGV[2]) == 1 then return 1 end
local first = head()
leave(ARGV[1])
if first == ARGV[1] then callHead() end
return 0
