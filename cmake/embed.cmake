# The files of web/ as a table in C (struct page_file, src/serve/page.h).
#
# Included: sets hasten_page_source, a file that is made again when web/ changes.
# As a script, `cmake -D WEB=FOLDER -D OUT=FILE -P embed.cmake`: writes it.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  file(GLOB hasten_page_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/web/*")
  set(hasten_page_source "${PROJECT_BINARY_DIR}/page_files.c")
  add_custom_command(OUTPUT "${hasten_page_source}" VERBATIM
    DEPENDS ${hasten_page_files} "${CMAKE_CURRENT_LIST_FILE}"
    COMMAND "${CMAKE_COMMAND}" -D "WEB=${PROJECT_SOURCE_DIR}/web" -D "OUT=${hasten_page_source}"
            -P "${CMAKE_CURRENT_LIST_FILE}"
    COMMENT "Writing the web page into a table")
  return()
endif()

set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

file(GLOB files "${WEB}/*")
set(arrays "")
set(table "")
set(number 0)
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  string(REGEX REPLACE ".*\\." "" extension "${name}")
  if(NOT DEFINED type_${extension})
    message(FATAL_ERROR "${file}: no Content-Type is known for it (expected .html, .css, .js or .svg)")
  endif()
  file(SIZE "${file}" size)
  file(SHA256 "${file}" hash)
  string(SUBSTRING "${hash}" 0 20 tag)
  file(READ "${file}" bytes HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(....................................................................................................)" "\\1\n" bytes "${bytes}")
  if(name STREQUAL "index.html")
    set(path "/")
  else()
    set(path "/assets/${name}")
  endif()
  string(APPEND arrays "static const unsigned char bytes_${number}[] = {\n${bytes}};\n")
  string(APPEND table "    {\"${path}\", \"${type_${extension}}\", \"\\\"${tag}\\\"\", bytes_${number}, ${size}},\n")
  math(EXPR number "${number} + 1")
endforeach()
if(number EQUAL 0)
  message(FATAL_ERROR "${WEB}: no files (expected the web page)")
endif()
file(WRITE "${OUT}" "/* Made by cmake/embed.cmake from web/. */\n#include \"serve/page.h\"\n\n${arrays}
const struct page_file page_files[] = {\n${table}};
const size_t page_n_files = sizeof page_files / sizeof *page_files;\n")
