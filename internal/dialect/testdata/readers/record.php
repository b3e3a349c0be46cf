<?php // php record.php < texts.json > php8.txt: how each text compares with two clocks as int.
echo "# \$text < 1400000000, \$text < 1400000000000 of PHP ", PHP_VERSION, "\n";
foreach (json_decode(stream_get_contents(STDIN)) as $text)
    echo json_encode($text), " ", json_encode($text < 1400000000), " ", json_encode($text < 1400000000000), "\n";
