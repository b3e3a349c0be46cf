-- leave: key, counter, order, alive, gives; place, ms for who must fetch it, 1 fair, TIME or '' twice → 1 when the key was ours and is given up, 0 when it was not
local _, _, _, token = parts(ARGV[1])
if hand(token) == 1 then return 1 end
local first = head()
leave(ARGV[1])
if first == ARGV[1] then callHead() end
return 0
