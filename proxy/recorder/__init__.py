"""The process that makes segments of journals: the only one that loads Arrow while a proxy records.

It is started with the capture, follows the journals of its run, and is started again when it dies. It can hang, and
the traffic doesn't notice: what it has not done is in the journals.
"""
