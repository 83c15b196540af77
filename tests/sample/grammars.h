/* Grammars that several tests use. */
#ifndef TESTS_SAMPLE_GRAMMARS_H
#define TESTS_SAMPLE_GRAMMARS_H

#define JSON_GRAMMAR                                                                                         \
    "root ::= object\n"                                                                                      \
    "value ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"                    \
    "object ::= \"{\" ws ( string \":\" ws value (\",\" ws string \":\" ws value)* )? \"}\" ws\n"            \
    "array ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws\n"                                             \
    "string ::= \"\\\"\" ( [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" [0-9a-fA-F]{4}) )* "  \
    "\"\\\"\" ws\n"                                                                                          \
    "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws\n"   \
    "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n"

/* Something like C: declarations, statements, expressions with their precedences. */
#define C_GRAMMAR                                                                                                    \
    "root ::= (function | declaration)+\n"                                                                           \
    "type ::= (\"unsigned\" ws)? (\"int\" | \"char\" | \"long\" | \"float\" | \"double\" | \"void\") ws \"*\"* ws\n" \
    "function ::= type name \"(\" ws (type name (\",\" ws type name)*)? \")\" ws block\n"                            \
    "declaration ::= type name (\"[\" ws number \"]\" ws)? (\"=\" ws expr)? \";\" ws\n"                              \
    "block ::= \"{\" ws statement* \"}\" ws\n"                                                                       \
    "statement ::= declaration | block | \"if\" ws \"(\" ws expr \")\" ws statement (\"else\" ws1 statement)?\n"     \
    "  | \"while\" ws \"(\" ws expr \")\" ws statement | \"return\" (ws1 expr)? \";\" ws\n"                          \
    "  | \"for\" ws \"(\" ws expr? \";\" ws expr? \";\" ws expr? \")\" ws statement | expr? \";\" ws\n"              \
    "expr ::= assign\n"                                                                                              \
    "assign ::= cond | unary (\"=\" | \"+=\" | \"-=\" | \"*=\" | \"/=\") ws assign\n"                                \
    "cond ::= or (\"?\" ws expr \":\" ws cond)?\n"                                                                   \
    "or ::= or \"||\" ws and | and\n"                                                                                \
    "and ::= and \"&&\" ws eq | eq\n"                                                                                \
    "eq ::= eq (\"==\" | \"!=\") ws rel | rel\n"                                                                     \
    "rel ::= rel (\"<\" | \">\" | \"<=\" | \">=\") ws add | add\n"                                                   \
    "add ::= add [-+] ws mul | mul\n"                                                                                \
    "mul ::= mul [*/%] ws unary | unary\n"                                                                           \
    "unary ::= (\"++\" | \"--\" | [-!*&~]) ws unary | postfix\n"                                                     \
    "postfix ::= postfix \"[\" ws expr \"]\" ws | postfix \"(\" ws (assign (\",\" ws assign)*)? \")\" ws\n"          \
    "  | postfix (\".\" | \"->\") ws name | postfix (\"++\" | \"--\") ws | primary\n"                                \
    "primary ::= name | number | string | \"(\" ws expr \")\" ws\n"                                                  \
    "name ::= [a-zA-Z_] [a-zA-Z0-9_]* ws\n"                                                                          \
    "number ::= [0-9]+ (\".\" [0-9]*)? ws\n"                                                                         \
    "string ::= \"\\\"\" ([^\"\\\\\\n] | \"\\\\\" [^\\n])* \"\\\"\" ws\n"                                            \
    "ws ::= ([ \\t\\n]+)?\n"                                                                                         \
    "ws1 ::= [ \\t\\n]+\n"

#endif
