#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked debug
# Debian's php opens its extensions with RTLD_DEEPBIND: they have the program's malloc all the same.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need php

same version 'php*' php -v
same extensions 'php*' php -r 'echo implode(" ", get_loaded_extensions()), "\n";'
cat >"$work/work.php" <<'PHP'
<?php
if (extension_loaded('pdo_sqlite')) {
    $db = new PDO('sqlite::memory:');
    $db->exec('create table t (n integer, s text)');
    $put = $db->prepare('insert into t values (?, ?)');
    for ($i = 0; $i < 1000; $i++)
        $put->execute([$i, str_repeat('x', $i)]);
    echo $db->query('select sum(n), sum(length(s)) from t')->fetch()[1], "\n";
}
if (extension_loaded('dom')) {
    $document = new DOMDocument();
    $document->loadXML('<r>' . str_repeat('<e a="1">text</e>', 1000) . '</r>');
    echo (new DOMXPath($document))->query('//e[@a=1]')->length, "\n";
}
echo count(token_get_all('<?php ' . str_repeat('f($x); ', 1000))), "\n";
PHP
same work 'php*' php "$work/work.php"
