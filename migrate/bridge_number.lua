-- bridge_number: counter; numbers, TIME or '' twice → fencing number
-- insert draw
return draw(KEYS[1], ARGV[1], ARGV[2], ARGV[3])
