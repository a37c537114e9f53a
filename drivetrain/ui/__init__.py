"""The pages of this machine's runs and models, served to the browser of the user who started it.

server.py   HTTP on the loopback address: who may ask, and for what
pages.py    what each address shows
triggers_page.py   what is served, and what it has started
live.js     brings what has changed into a page that is open
"""
