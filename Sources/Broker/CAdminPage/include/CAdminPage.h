/* The files of the admin page, embedded in the program. */
#ifndef CADMINPAGE_H
#define CADMINPAGE_H

#include <stddef.h>

struct fb_file {
    const unsigned char *bytes;
    size_t count;
};

extern const struct fb_file fb_page_index;
extern const struct fb_file fb_page_style;
extern const struct fb_file fb_page_script;
extern const struct fb_file fb_page_kit;
extern const struct fb_file fb_page_tables;
extern const struct fb_file fb_page_tail;
extern const struct fb_file fb_page_icon;

#endif
