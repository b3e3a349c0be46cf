<?php
// What Kdyby/Redis' lock really does, on a stub of its client and a clock that stands still:
//
//   php record.php src/Kdyby/Redis/ExclusiveLock.php > ../recorded-kdyby.txt
//
// The format is that of the other files in that folder; its header explains it. Under PHP 8 the
// dialect reads as PHP 8 does; the lines "with" say so.
namespace Nette {
    trait SmartObject {}
}

namespace Kdyby\Redis {
    class Stop extends \Exception {}
    class LockException { static function highConcurrency() { return new Stop("lost"); } }

    // The second SETNX of an attempt is stopped: what came before tells the step.
    class RedisClient {
        public $sent = [], $seen, $old;
        function setNX($key, $value) { $this->sent[] = ["setnx", $value]; if (count($this->sent) > 1) throw new Stop("again"); return 0; }
        function get($key) { return $this->seen; }
        function getSet($key, $value) { $this->sent[] = ["getset", $value]; return $this->old; }
        function del($key) { $this->sent[] = ["del", $key]; }
    }

    function time() { return intdiv($GLOBALS["nanos"], 1000000000); }
    function usleep($micros) { throw new Stop("wait"); }
}

namespace {
    const NOW = 1400000000123456789;
    $nanos = NOW;
    require $argv[1];

    function word($v) {
        if ($v === null || $v === false) return "nil";
        return preg_match('/^[!-~]*$/D', $v) ? "=$v" : "hex:" . bin2hex($v);
    }

    function attempt($seen, $old, $duration) {
        $client = new Kdyby\Redis\RedisClient;
        list($client->seen, $client->old) = [$seen, $old];
        $lock = new Kdyby\Redis\ExclusiveLock($client);
        $lock->duration = $duration;
        try { $lock->acquireLock("stock"); $end = "won"; } catch (Kdyby\Redis\Stop $e) { $end = $e->getMessage(); }
        return [$client, $lock, $end];
    }

    $seens = ["1400000000", "1399999999", "1400000001", "1", "0", "00", "-5", "+5", " 5", "5 ", "5x", "1.4e9", "1399999999.5", "1e999", "",
        "abc", "nan", "2abc", "1_0", "2147483649.0", "1400000000123", "9223372036854775807", "9223372036854775808", "4611686018427387904",
        "01020300-0000-4000-8000-000000000000:1400000060124", "\xff", "true", false];
    echo "# Recorded by record/record.php on PHP ", PHP_VERSION, ".\ndialect kdyby\n";
    if (PHP_MAJOR_VERSION >= 8) echo "with reader php8\n";
    foreach ([NOW, 1400000000000000000, 1600000000987654321, 4102444800000000001] as $nanos)
        foreach ([15, 1, 2.9, 3600] as $duration)
            echo "stamp $nanos ", (int)($duration * 1000), " - ", word((string)attempt("9999999999", null, $duration)[0]->sent[0][1]), "\n";
    $nanos = NOW;
    foreach ($seens as $seen) {
        list($client, , $end) = attempt($seen, "x", 15);
        echo "next $nanos - ", word($seen), " ", ($client->sent[1][0] ?? "") == "getset" ? "getset" : $end, "\n";
    }
    foreach (["1", "1399999999", "-5"] as $seen)
        foreach ($seens as $old)
            echo "wins $nanos ", word($seen), " ", word($old), " ", attempt($seen, $old, 15)[2] == "won" ? "won" : "lost", "\n";
    foreach ([0, 14, 15, 16, 17] as $later) {
        $nanos = NOW;
        list($client, $lock) = attempt("1", "1", 15);
        $own = (string)$client->sent[1][1];
        $client->sent = [];
        $nanos = NOW + $later * 1000000000;
        $lock->release("stock");
        echo "release $nanos ", word($own), " nil ", $client->sent ? "del" : "leave", "\n";
    }
}
