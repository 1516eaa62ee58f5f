/* The admin page's files, as they lie beside this one: the compiler reads them, so what is served is what is here. */
#include "CAdminPage.h"

static const unsigned char index_html[] = {
#embed "index.html"
};
static const unsigned char style_css[] = {
#embed "style.css"
};
static const unsigned char script_js[] = {
#embed "script.js"
};
static const unsigned char icon_svg[] = {
#embed "icon.svg"
};

const struct fb_file fb_page_index = { index_html, sizeof index_html };
const struct fb_file fb_page_style = { style_css, sizeof style_css };
const struct fb_file fb_page_script = { script_js, sizeof script_js };
const struct fb_file fb_page_icon = { icon_svg, sizeof icon_svg };
