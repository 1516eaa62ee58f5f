/* The admin page's files, embedded by the compiler: the broker serves exactly the files in this folder. */
#include "CAdminPage.h"

static const unsigned char index[] = {
#embed "index.html"
};

static const unsigned char style[] = {
#embed "style.css"
};

static const unsigned char script[] = {
#embed "script.js"
};

static const unsigned char kit[] = {
#embed "kit.js"
};

static const unsigned char tables[] = {
#embed "tables.js"
};

static const unsigned char tail[] = {
#embed "tail.js"
};

static const unsigned char icon[] = {
#embed "icon.svg"
};

const struct fb_file fb_page_index = { index, sizeof index };
const struct fb_file fb_page_style = { style, sizeof style };
const struct fb_file fb_page_script = { script, sizeof script };
const struct fb_file fb_page_kit = { kit, sizeof kit };
const struct fb_file fb_page_tables = { tables, sizeof tables };
const struct fb_file fb_page_tail = { tail, sizeof tail };
const struct fb_file fb_page_icon = { icon, sizeof icon };
